"""Signal processing: DFT, STFT, window functions, mel weights, cumulative products."""
