"""Tables, trees and charts as data, and flame charts as text and SVG: what views and reports
draw.
"""
