// Package jsonscan walks over JSON text without building anything from it.
//
// Two things need that: the wire, which has to find the members of a message
// and know that the text is sound before anybody waits for it longer; and the
// typed results, which are read in one pass. encoding/json would look at each
// byte three times for the same.
//
// A [Scanner] accepts what encoding/json accepts (RFC 8259; invalid UTF-8 and
// unpaired surrogates pass), nested up to [MaxDepth] levels.
package jsonscan
