# fish completion for numaudit, which prints its own script: that of the release that is installed.
# A value may have commas in it (--verdict drifted,spilled): only the first of an answer ends a field.
_NUMAUDIT_COMPLETE=fish_source numaudit | string replace 'string split ","' 'string split --max 1 ","' | source
