//go:build unix

package testutil

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Programs that several tests write can start while others are written.
func TestWriteProgram(t *testing.T) {
	for n := range 8 {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for i := range 50 {
				program := filepath.Join(dir, strconv.Itoa(i))
				WriteProgram(t, program, []byte("#!/bin/sh\n"))
				require.NoError(t, exec.Command(program).Run())
			}
		})
	}
}
