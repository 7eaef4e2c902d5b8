package listing

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Pages together are the whole list, with each size, although entries come and go between
// them.
func TestPage(t *testing.T) {
	var list []Owner
	for i := range 7 {
		list = append(list, Owner{fmt.Sprint("s", i/3), fmt.Sprint("t", i)})
	}
	same := func(k *Owner) Owner { return *k }
	for size := 1; size <= 8; size++ {
		var got []Owner
		cursor := ""
		for pages := 0; ; pages++ {
			require.Less(t, pages, 8)
			part, next, err := page(list, same, cursor, size)
			require.NoError(t, err)
			got = append(got, part...)
			if cursor = next; next == "" {
				break
			}
		}
		require.Equal(t, list, got)
	}
	_, cursor, err := page(list, same, "", 3)
	require.NoError(t, err)
	part, _, err := page(append(append([]Owner{}, list[:2]...), list[4:]...), same, cursor, 10)
	require.NoError(t, err)
	require.Equal(t, list[4:], part, "the entry of the cursor is gone")
	part, _, err = page(nil, same, cursor, 10)
	require.NoError(t, err)
	require.Empty(t, part)
}
