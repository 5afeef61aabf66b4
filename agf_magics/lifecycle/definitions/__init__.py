"""Turns texts and files into registered flows."""
