"""Pictures and pages: a flow and a run as graphviz text, SVG, an outline, static HTML and text.
Without IPython.

    plain -> theme -> dataflow -> boxes -> edges -> scene        the content of a picture
    dot -> layout -> numbers -> svg -> diagram                   its layout and painting
    plain -> values -> page, run_page, past_page, listing        the pages

All texts go through `plain`: no name, value or error can write markup, move a terminal's cursor,
reverse the direction of text, or take long to display.
"""
