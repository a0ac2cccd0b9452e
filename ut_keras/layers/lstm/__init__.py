"""LSTM layers, for the LSTM baselines."""
