package transport

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// The last server ends while a search that was given up still reads the process
// table: the directory is not closed under it.
func TestDescriptorsEndWhileProcessesAreListed(t *testing.T) {
	var r descriptorReserve
	var searches sync.WaitGroup
	for range 50 {
		r.begin()
		began := make(chan struct{})
		searches.Go(func() {
			close(began)
			names, err := r.processes()
			if err == nil { // else the end came first
				require.NotEmpty(t, names)
			}
		})
		<-began
		r.end()
	}
	searches.Wait()
	require.Nil(t, r.proc)
}
