local groups = std.parseYaml(importstr 'numaudit.rules.yaml').groups;
local of(kind) = { groups+: std.filter(function(group) std.objectHas(group.rules[0], kind), groups) };
// Of the alerts and recording rules, as in every mixin.
{ prometheusAlerts+:: of('alert'), prometheusRules+:: of('record') }
