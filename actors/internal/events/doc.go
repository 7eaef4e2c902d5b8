// Package events distributes what happens to servers: to watchers ([Hub]) and to the
// client's logger ([Logger]). Publishing never waits: a watcher, or a log writer, that
// does not keep up loses events and learns how many.
package events
