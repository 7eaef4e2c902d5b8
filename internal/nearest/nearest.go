// Package nearest finds the known names that are most similar to an unknown one, for "did
// you mean" in errors. A search has a budget of steps, because a model may invent names of
// any length and a server may have any number of tools.
package nearest

import (
	"iter"
	"slices"
	"strings"
)

const (
	// maxNames is how many names a search returns at most.
	maxNames = 3
	// maxNameBytes is the longest unknown name in bytes that is searched for.
	maxNameBytes = 256
	// maxDistance bounds the edit distance between the unknown name and a result.
	maxDistance = 10
	// maxSteps bounds a search. The result is what was found until then. A step compares two
	// characters, which takes one or two nanoseconds.
	maxSteps = 16 << 20
	// stepsPerName is what each name costs, even one of another length.
	stepsPerName = 16
)

// Names returns the names that differ least from name, at most three, the most similar
// one first. It returns none if all differ much.
func Names(name string, names []string) []string {
	return AmongSpellings(name, func(yield func(string, string) bool) {
		for _, n := range names {
			if !yield(n, n) {
				return
			}
		}
	})
}

// AmongSpellings is [Names] for names with several spellings: each pair is a spelling and
// its name. A name is returned once.
func AmongSpellings(name string, spellings iter.Seq2[string, string]) []string {
	names, _ := search(name, spellings, maxSteps)
	return names
}

// candidate is a name and the edit distance of its most similar spelling.
type candidate struct {
	name     string
	distance int
}

// search compares name with all spellings until steps are spent, and returns how many are left.
func search(name string, spellings iter.Seq2[string, string], steps int) ([]string, int) {
	if len(name) > maxNameBytes {
		return nil, steps
	}
	name = strings.ToLower(name)
	limit := min(max(2, len(name)/3), maxDistance)
	var found []candidate // nearest first
	for spelling, meant := range spellings {
		if steps -= stepsPerName; steps < 0 {
			break
		}
		d, spent := distance(name, spelling, limit)
		if steps -= spent; d > limit {
			continue
		}
		found = insert(found, candidate{meant, d})
		if limit = min(limit, 2*found[0].distance); len(found) == maxNames {
			limit = min(limit, found[maxNames-1].distance)
		}
	}
	var names []string
	for _, c := range found {
		if c.distance <= 2*found[0].distance { // twice as far as the nearest is too far
			names = append(names, c.name)
		}
	}
	return names, steps
}

// insert adds a candidate after those of the same distance, and keeps the nearest
// maxNames. A name that is already there keeps its smaller distance.
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

// distance returns the Levenshtein distance between a, which is in lower case, and b, or
// a number above limit, and how many steps that took. It computes only the band of the matrix
// that can hold a result within the limit. a has at most maxNameBytes bytes, and limit is at
// most maxDistance.
func distance(a, b string, limit int) (d, steps int) {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1, 0
	}
	var row [maxNameBytes + maxDistance + 1]int
	for j := range row[:len(b)+1] {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		first, last := max(1, i-limit), min(len(b), i+limit)
		steps += last - first + 1
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
			return limit + 1, steps
		}
	}
	return row[len(b)], steps
}

// lower returns an ASCII letter in lower case.
func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
