"""Tables that README quotes: a command replaces what stands between two comments. Pure."""

import re


def replace_block(text: str, name: str, content: str) -> str:
    """Between `<!-- NAME: … -->` and `<!-- end -->`; a text without that comment stays as it is."""
    pattern = re.compile(rf"(<!-- {re.escape(name)}:[^>]*-->\n).*?(<!-- end -->)", flags=re.DOTALL)
    return pattern.sub(lambda found: f"{found.group(1)}{content.strip()}\n{found.group(2)}", text)
