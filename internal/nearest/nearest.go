// Package nearest finds what somebody probably meant. A search is bounded in
// time, so that a name that a model invented costs little, however long it is and
// however many names there are.
package nearest

import (
	"iter"
	"slices"
	"strings"
	"time"
)

const (
	// maxNames is how many names are worth mentioning.
	maxNames = 3
	// maxLength is the longest name in bytes for which one is looked for.
	maxLength = 256
	// maxDistance is how many edits may lie between a name and what was meant by
	// it, however long both are.
	maxDistance = 10
	// patience bounds a search. What was found by then is the result.
	patience = 20 * time.Millisecond
	// perLook is how many names are compared between two looks at the clock.
	perLook = 32
)

// Names returns at most three of the names, those that differ least from name, if
// that is little.
func Names(name string, names []string) []string {
	return Among(name, func(yield func(string, string) bool) {
		for _, n := range names {
			if !yield(n, n) {
				return
			}
		}
	})
}

// Among is [Names] over spellings: each comes with the name that is meant by it,
// which may have several.
func Among(name string, spellings iter.Seq2[string, string]) []string {
	began := time.Now()
	return search(name, spellings, func() bool { return time.Since(began) >= patience })
}

// candidate is a name and how far one of its spellings is from what was asked for.
type candidate struct {
	name     string
	distance int
}

func search(name string, spellings iter.Seq2[string, string], late func() bool) []string {
	if len(name) > maxLength {
		return nil
	}
	name = strings.ToLower(name)
	limit := min(max(2, len(name)/3), maxDistance)
	var found []candidate // nearest first
	looks := 0
	for spelling, meant := range spellings {
		if looks++; looks%perLook == 0 && late() {
			break
		}
		d := distance(name, spelling, limit)
		if d > limit {
			continue
		}
		found = insert(found, candidate{meant, d})
		if limit = min(limit, 2*found[0].distance); len(found) == maxNames {
			limit = min(limit, found[maxNames-1].distance)
		}
	}
	var names []string
	for _, c := range found {
		if c.distance <= 2*found[0].distance { // what is much farther than the nearest is not meant
			names = append(names, c.name)
		}
	}
	return names
}

// insert puts a candidate behind those that are as near, and keeps the nearest.
func insert(found []candidate, c candidate) []candidate {
	if at := slices.IndexFunc(found, func(f candidate) bool { return f.name == c.name }); at >= 0 {
		if found[at].distance <= c.distance {
			return found
		}
		found = slices.Delete(found, at, at+1)
	}
	at := slices.IndexFunc(found, func(f candidate) bool { return f.distance > c.distance })
	if at < 0 {
		at = len(found)
	}
	found = slices.Insert(found, at, c)
	return found[:min(len(found), maxNames)]
}

// distance is the Levenshtein distance between a, in lower case, and b in any, or
// something above limit. It looks only at the band of the matrix in which a
// result within the limit can lie. a is at most maxLength long, limit at most
// maxDistance.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	var row [maxLength + maxDistance + 1]int
	for j := range row[:len(b)+1] {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		first, last := max(1, i-limit), min(len(b), i+limit)
		diagonal := row[first-1]
		row[first-1] = limit + 1 // beyond the band, unless it is the edge
		if first == 1 {
			row[0] = i
		}
		least := row[first-1]
		if last == i+limit {
			row[last] = limit + 1
		}
		for j := first; j <= last; j++ {
			cost := 1
			if a[i-1] == lower(b[j-1]) {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
			least = min(least, row[j])
		}
		if least > limit {
			return limit + 1
		}
	}
	return row[len(b)]
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
