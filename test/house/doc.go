// Package house checks the rules of the house: which package may know which,
// what the front door may show, how large a file may grow, and which words
// have no place here. It tests the source, not the program.
package house
