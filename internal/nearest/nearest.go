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
// one first. It returns none if all differ much, and never name itself: it may have become known since
// the caller looked for it.
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
	unknown := name
	name = strings.ToLower(name)
	limit := min(max(2, len(name)/3), maxDistance)
	var found []candidate
	for spelling, meant := range spellings {
		if steps -= stepsPerName; steps < 0 {
			break
		}
		d, spent := distance(name, spelling, limit)
		if steps -= spent; d <= limit && meant != unknown {
			found = append(found, candidate{meant, d})
			limit = min(limit, 2*d) // twice as far as the nearest is too far
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return a.distance - b.distance })
	var names []string
	for _, c := range found {
		if c.distance <= limit && len(names) < maxNames && !slices.Contains(names, c.name) {
			names = append(names, c.name)
		}
	}
	return names, steps
}

// distance returns the Levenshtein distance between a, which is in lower case, and b, or
// a number above limit, and how many steps that took. a has at most maxNameBytes bytes, and
// limit is at most maxDistance.
func distance(a, b string, limit int) (d, steps int) {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1, 0
	}
	var row [maxNameBytes + maxDistance + 1]int
	for j := range row[:len(b)+1] {
		row[j] = j
	}
	for i := range len(a) {
		diagonal, least := row[0], i+1
		row[0] = least
		for j := range len(b) {
			cost := 1
			if a[i] == lower(b[j]) {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
			least = min(least, row[j+1])
		}
		if steps += len(b); least > limit {
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
