"""The verb team: joins a team, offers workspaces and servers to it, and uses those of others."""
