"""The fenced scripts. Each compares the owner's token before it writes, and refuses when there is none.

An owner numbers its writes: a slow server also runs commands whose caller has timed out, in any order, and an older
write must not undo a newer one. Between its first ring and its header a checkpoint is marked as torn: rings that are
newer than their header have overwritten what the header's windows need.
"""

CLAIM = """
local epoch = redis.call('HINCRBY', KEYS[1], 'epoch', 1)
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'write', 0)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return epoch
"""

FENCED = -1
"""Reply to a writer whose token is not the current one."""

UNCLAIMED = -2
"""Reply when there is no token at all."""

STALE = -3
"""Reply to a write that arrives after a newer one of the same owner."""

_CHECK = """
local owner = redis.call('HGET', KEYS[1], 'token')
if not owner then return -2 end
if owner ~= ARGV[1] then return -1 end
if tonumber(ARGV[2]) < tonumber(redis.call('HGET', KEYS[1], 'write') or 0) then return -3 end
redis.call('HSET', KEYS[1], 'write', ARGV[2])
"""

SAVE_RINGS = (
    _CHECK
    + """
-- KEYS: claim, header, rings …   ARGV: token, write, ttl ms, then per ring: size, pieces, (offset, bytes) …
local lost, at = {}, 4
redis.call('HSET', KEYS[2], 'torn', 1)
redis.call('PEXPIRE', KEYS[2], ARGV[3])
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
  redis.call('PEXPIRE', key, ARGV[3])
  at = at + 2 * pieces
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return lost
"""
)

SAVE_HEADER = (
    _CHECK
    + """
-- KEYS: claim, header, rings to prolong …, rings to delete …   ARGV: token, write, ttl ms, header, assets,
-- number of rings to delete
local kept = #KEYS - tonumber(ARGV[6])
for ring = 3, kept do
  if redis.call('PEXPIRE', KEYS[ring], ARGV[3]) == 0 then return ring - 2 end
end
for ring = kept + 1, #KEYS do redis.call('UNLINK', KEYS[ring]) end
redis.call('HSET', KEYS[2], 'header', ARGV[4], 'assets', ARGV[5], 'torn', 0)
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 0
"""
)
