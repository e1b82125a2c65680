"""Figures from Periscope's result files. Run `python -m plots RESULTS_DIR --out FIGURES_DIR`.

The files hold measured and predicted values alike. What is here draws them and computes nothing.
"""
