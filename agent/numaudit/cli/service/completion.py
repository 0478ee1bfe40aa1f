"""`numaudit completion`: the script with which a shell completes verbs, options and names of containers."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")


@click.command(
    epilog="""\b
Examples:
  source <(numaudit completion bash)
  numaudit completion zsh > "${fpath[1]}/_numaudit"
  numaudit completion fish > ~/.config/fish/completions/numaudit.fish

Exit codes: 0 fine, 2 usage.
"""
)
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell, for verbs, options, values and names of containers."""
    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(ctx.find_root().command, {}, "numaudit", "_NUMAUDIT_COMPLETE").source())
