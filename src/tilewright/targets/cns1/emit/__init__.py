"""Programs of the loop IR as text of the Torrent: calls stand inline, loops run on registers."""
