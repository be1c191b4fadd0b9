"""The notebooks of Lab 15, the experiments behind them, the figures and the book."""
