package main

import (
	"context"
	"os"
	"strconv"
	"testing"
)

// TestMain runs the test binary as a server if the environment says so.
func TestMain(m *testing.M) {
	fastServer = self()
	if serve(context.Background()) {
		return
	}
	os.Exit(m.Run())
}

func benchmarkEcho(b *testing.B, t target, open openFunc) {
	a, err := open(b.Context(), t)
	if err != nil {
		b.Fatal(err)
	}
	defer a.close()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		text := strconv.Itoa(i)
		got, err := a.echo(b.Context(), text)
		if err != nil {
			b.Fatal(err)
		}
		if err := checkEcho(a, t, text, got); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStdioCall(b *testing.B)    { benchmarkEcho(b, stdioTarget("fast"), newFacadeDriver) }
func BenchmarkStdioCallRaw(b *testing.B) { benchmarkEcho(b, stdioTarget("fast"), newRawDriver) }

func BenchmarkHTTPCallRaw(b *testing.B) {
	t, stop, err := httpTarget("http")
	if err != nil {
		b.Fatal(err)
	}
	defer stop()
	benchmarkEcho(b, t, newRawDriver)
}
