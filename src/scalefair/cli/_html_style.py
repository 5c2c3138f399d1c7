"""The frame and the style of a page of HTML."""

from __future__ import annotations

from string import Template

__all__ = ["FRAME"]

_STYLE = """
:root {
  color-scheme: light dark;
  --text: #1c1c1c; --quiet: #555; --back: #fff; --line: #c8c8c8; --shade: #f4f4f4;
  --alert: #fff3dc; --edge: #a85200;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --text: #e8e8e8; --quiet: #b0b0b0; --back: #181818; --line: #484848;
    --shade: #242424; --alert: #3a2c12; --edge: #f0a040;
  }
}
body {
  margin: 0 auto; padding: 1.5rem; max-width: 62rem;
  background: var(--back); color: var(--text);
  font: 1rem/1.5 system-ui, "DejaVu Sans", sans-serif; overflow-wrap: break-word;
}
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0; }
h2 { font-size: 1.2rem; margin: 2rem 0 0.5rem; }
header p, caption, figcaption { color: var(--quiet); }
.alert {
  margin: 1rem 0; padding: 0.5rem 1rem;
  background: var(--alert); border-left: 4px solid var(--edge);
}
.alert h2 { font-size: 1rem; margin: 0; }
.alert ul { margin: 0.25rem 0; padding-left: 1.2rem; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { padding: 0 0 0.25rem; text-align: left; }
th, td {
  padding: 0.25rem 0.75rem; border-bottom: 1px solid var(--line);
  text-align: left; vertical-align: top;
}
thead th { background: var(--shade); white-space: nowrap; }
tbody th { font-weight: normal; }
.number { text-align: right; white-space: nowrap; }
.facts td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
summary { cursor: pointer; }
figure { margin: 1.5rem 0; }
img { display: block; max-width: 100%; height: auto; background: #fff; }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  .wide { overflow: visible; }
  tr, figure, .alert { break-inside: avoid; }
  h2, caption { break-after: avoid; }
}
"""

# The policy keeps a browser from loading or running anything, whatever is inserted.
FRAME = Template(
    f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<h1>$title</h1>
<p>$subtitle</p>
</header>
<main>
$body
</main>
</body>
</html>
"""
)
