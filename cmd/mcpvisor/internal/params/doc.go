// Package params is about the parameters of a tool, as its input schema declares them. It
// lists them for a table, makes arguments of the words of a command line, and checks
// arguments before they are sent.
//
// Schemas come from servers. What cannot be read in one is left out: a server with an odd
// schema can be called anyway. References are followed within the schema only.
package params
