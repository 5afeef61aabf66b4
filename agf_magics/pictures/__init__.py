"""Pictures and pages: a flow and a run as graphviz text, SVG, an outline, static HTML and text. Never IPython.

    plain -> look -> boxes -> edges -> scene     the content of a picture
    dot -> layout -> numbers -> svg -> diagram   its layout and painting
    plain -> values -> page, run_page, listing                    the pages

All foreign text goes through `plain` first: no name, value or error can write markup, move the cursor of a terminal,
change the direction of the text, or make a page that takes too long to display.
"""
