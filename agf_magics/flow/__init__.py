"""The one representation: what will run. Every language becomes it; checks, picture, progress and run read it."""
