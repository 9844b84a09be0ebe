"""Recurrent networks (RNN, GRU, LSTM) and Scan."""
