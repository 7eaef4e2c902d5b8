package facade

// SavedLists counts the servers whose saved lists a client knows.
func SavedLists(c *Client) int {
	c.saving.Lock()
	defer c.saving.Unlock()
	return len(c.saved)
}
