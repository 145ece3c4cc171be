"""The fenced scripts. Each compares the owner's token before it writes, and refuses when there is none.

The header of a layout carries the version of what is stored: the name of the write that made it, different for every
write of every owner. A write names the version on which it builds, the last one that was acknowledged to its caller,
and is applied only to exactly that one. So a server that came back older than what it acknowledged (a fail-over, a
snapshot, a power cut) is noticed, and a command whose caller has timed out cannot undo a newer one. A client that
sends a command again because the reply was lost finds its own version there already: the repetition changes nothing.

Between its first ring and its header a checkpoint is marked as torn: rings that are newer than their header have
overwritten what the header's windows need.
"""

CLAIM = """
-- KEYS: claim   ARGV: token, ttl ms, the highest epoch that this client has held
local epoch = math.max(tonumber(redis.call('HGET', KEYS[1], 'epoch') or 0), tonumber(ARGV[3])) + 1
-- 'write' is for agents that do not know versions: they number their writes from here.
redis.call('HSET', KEYS[1], 'epoch', epoch, 'token', ARGV[1], 'write', 0)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return epoch
"""

FENCED = -1
"""Reply to a writer whose token is not the current one."""

UNCLAIMED = -2
"""Reply when there is no token at all, or only that of an earlier owner: the server has lost the writer's claim."""

OTHER_VERSION = -3
"""First item of the reply when the stored version is not the one that the write builds on; the second is the stored."""

_CHECK = """
-- KEYS: claim, header, …   ARGV: token, epoch, version to build on, version of this write, ttl ms, …
local owner = redis.call('HGET', KEYS[1], 'token')
if not owner then return -2 end
if owner ~= ARGV[1] then
  if tonumber(redis.call('HGET', KEYS[1], 'epoch') or 0) < tonumber(ARGV[2]) then return -2 end
  return -1
end
local stored = redis.call('HGET', KEYS[2], 'version') or ''
if stored ~= ARGV[3] and stored ~= ARGV[4] then return {-3, stored} end
"""

SAVE_RINGS = (
    _CHECK
    + """
-- KEYS: claim, header, rings …   ARGV: …, then per ring: size, pieces, (offset, bytes) …
local lost, at = {}, 6
redis.call('HSET', KEYS[2], 'torn', 1, 'version', ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
for ring = 3, #KEYS do
  local key, size, pieces = KEYS[ring], tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  at = at + 2
  local whole = pieces == 1 and tonumber(ARGV[at]) == 0 and string.len(ARGV[at + 1]) == size
  if whole then
    redis.call('SET', key, ARGV[at + 1])
  elseif redis.call('STRLEN', key) ~= size then
    -- SETRANGE would make zeros that look like data.
    lost[#lost + 1] = ring - 3
  else
    for piece = 0, pieces - 1 do
      redis.call('SETRANGE', key, ARGV[at + 2 * piece], ARGV[at + 2 * piece + 1])
    end
  end
  redis.call('PEXPIRE', key, ARGV[5])
  at = at + 2 * pieces
end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return lost
"""
)

SAVE_HEADER = (
    _CHECK
    + """
-- KEYS: claim, header, rings to prolong …, rings to delete …   ARGV: …, header, assets, number of rings to delete
local kept = #KEYS - tonumber(ARGV[8])
for ring = 3, kept do
  if redis.call('PEXPIRE', KEYS[ring], ARGV[5]) == 0 then return ring - 2 end
end
for ring = kept + 1, #KEYS do redis.call('UNLINK', KEYS[ring]) end
redis.call('HSET', KEYS[2], 'header', ARGV[6], 'assets', ARGV[7], 'torn', 0, 'version', ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 0
"""
)
