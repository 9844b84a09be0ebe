"""Signal processing: DFT, STFT, window functions, mel weights; n-gram counts."""
