//go:build !unix

package main

import (
	"context"
	"io"
)

// awaitHangup cannot tell here.
func awaitHangup(context.Context, io.Reader) bool { return false }
