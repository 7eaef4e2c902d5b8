// Package decisive finds, in what a server has written, the line that says why it failed: the
// exception and not its stack trace, the complaint and not the usage text behind it, what npm
// could not install and not where its log is.
//
//	internal/decisive/line.go      Line: weighs each line, and chooses one
//	internal/decisive/runtimes.go  what the lines of language runtimes and package runners mean
//	internal/decisive/cause.go     Lead: puts the line at the beginning of a cause
//
// Lines are texts of strangers. They come redacted, and the result is one of them, or up to
// three of them joined, on one line, bounded, without control characters.
package decisive
