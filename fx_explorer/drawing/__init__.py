"""Views and reports draw what is here: tables, trees and charts as data, and flame charts as text
and SVG.
"""
