// Package jsonscan reads JSON text without building values from it.
//
// Two callers need that. The transport finds the members of each message and checks that
// the whole text is valid JSON before it hands the message on. The facade decodes typed
// results in one pass. encoding/json would read each byte three times for the same.
//
// [EachMember] is the one reader of JSON objects: it calls a function for each member, and [Member] finds one.
// [Edit] changes a text and keeps the bytes that it does not change; [Object] makes one.
// [Scanner] is the level below it. It accepts what encoding/json accepts (RFC 8259;
// invalid UTF-8 and unpaired surrogates pass), nested up to [MaxDepth] levels. Start with
// scanner.go.
package jsonscan
