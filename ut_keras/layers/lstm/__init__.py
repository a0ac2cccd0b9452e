"""The LSTM baselines."""
