// Package nearest finds what somebody probably meant.
package nearest

import (
	"slices"
	"strings"
)

// maxNames is how many names are worth mentioning.
const maxNames = 3

// Names returns the names that differ least from name, if that is little.
func Names(name string, names []string) []string {
	type scored struct {
		name string
		d    int
	}
	limit := max(2, len(name)/3)
	var found []scored
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n), limit); d <= limit {
			found = append(found, scored{n, d})
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int { return a.d - b.d })
	var out []string
	for _, f := range found[:min(len(found), maxNames)] {
		if f.d <= 2*found[0].d { // what is much farther than the nearest is not meant
			out = append(out, f.name)
		}
	}
	return out
}

// distance is the Levenshtein distance, or something above limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
