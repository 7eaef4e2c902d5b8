package web_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	// Keys, filters, small lines of usage, the search for tools, the login, the nodes of a fleet, places,
	// ordered tables and forms with nested fields made the page grow.
	maxAssetBytes      = 171 << 10
	maxCompressedBytes = 61 << 10
)

// The page stays small: it is embedded in every program that serves it.
func TestAssets_are_small(t *testing.T) {
	s := serve(t, newClient(t))
	files, err := filepath.Glob("page/*")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	plain, compressed := 0, 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		plain += len(data)
		path := "/" + filepath.Base(file)
		response, body := s.do(http.MethodGet, path, "", func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip") })
		require.Equal(t, "gzip", response.Header.Get("Content-Encoding"))
		compressed += len(body)
		unzipped, err := gzip.NewReader(strings.NewReader(body))
		require.NoError(t, err)
		text, err := io.ReadAll(unzipped)
		require.NoError(t, err)
		require.Equal(t, string(data), string(text))
		response, body = s.do(http.MethodGet, path, "", func(r *http.Request) { r.Header.Set("Accept-Encoding", "identity") })
		require.Empty(t, response.Header.Get("Content-Encoding"))
		require.Equal(t, string(data), body)
		response, _ = s.do(http.MethodGet, path, "", func(r *http.Request) { r.Header.Set("If-None-Match", response.Header.Get("ETag")) })
		require.Equal(t, http.StatusNotModified, response.StatusCode)
	}
	t.Logf("%d bytes, %d compressed", plain, compressed)
	require.LessOrEqual(t, plain, maxAssetBytes)
	require.LessOrEqual(t, compressed, maxCompressedBytes)
}

// The page loads nothing from elsewhere, makes no markup of texts, and its links are
// relative, so that it works under any prefix.
func TestAssets_name_no_other_origin(t *testing.T) {
	files, err := filepath.Glob("page/*")
	require.NoError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		text := strings.ReplaceAll(string(data), "http://www.w3.org/2000/svg", "")
		require.NotRegexp(t, `https?://|//[a-z]+\.|@import`, text, file)
		require.NotRegexp(t, `innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setAttribute\("style`, text, file)
		require.NotRegexp(t, `(src|href|fetch|EventSource)[=(]"/`, text, file)
		if strings.HasSuffix(file, ".html") {
			require.NotRegexp(t, ` on[a-z]+=| style=|<script>|<style>`, text, file)
		}
	}
}
