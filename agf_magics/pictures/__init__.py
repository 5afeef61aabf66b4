"""Pictures and pages: a flow and a run as graphviz text, SVG, an outline, static HTML and text. Never IPython.

    plain -> look -> boxes -> edges -> scene     what is drawn of a flow
    dot -> layout -> numbers -> svg -> diagram   where it goes; painted
    plain -> values -> page, run_page, listing                    the pages

Whatever is shown goes through `plain` first: nobody's name, value or error can write markup, move a terminal's cursor,
turn the direction of the text, or take longer to show than it takes to read.
"""
