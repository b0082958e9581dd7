//! Plays the transcripts to INN.
