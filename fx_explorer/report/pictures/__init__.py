"""Pictures that do not depend on what they are drawn for: flame charts, as rows of text and as SVG."""
