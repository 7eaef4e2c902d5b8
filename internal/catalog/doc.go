// Package catalog holds what one incarnation of a server lists: its tools,
// resources, resource templates and prompts, sorted and indexed.
package catalog
