"""This package has what views and reports draw: tables, trees and charts as data, and flame charts
as text and SVG.
"""
