// Aim: only what really answers an echo counts as its answer. Duplicates, leftovers, forgeries, damage and
// late replies are distinguished, whatever other packets arrive, and through both kinds of sockets.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import type { IcmpObserved } from '../../../src/monitors/icmp/observed.ts'
import type { Observation } from '../../../src/contract/observation.ts'
import type { Answers } from '../../support/monitors/icmp/echo-answers.ts'
import { missing } from '../../support/needs.ts'

const why = missing('ip') ?? (process.getuid?.() === 0 ? undefined : 'needs root')
const run = promisify(execFile)
const program = new URL('../../support/monitors/icmp/echo-answers.ts', import.meta.url).pathname

/** Runs the monitor against such answers, in a namespace of its own. */
async function observe(
  kind: 'datagram' | 'raw',
  answers: Answers,
  request: Record<string, unknown>,
): Promise<Observation> {
  const range = kind === 'datagram' ? '0 2147483647' : '1 0'
  const commands = `
    ip link set lo up
    sysctl -qw net.ipv4.icmp_echo_ignore_all=1 net.ipv4.ping_group_range="${range}"
    exec "$0" "$@"`
  const options = JSON.stringify({ request: { hostname: '127.0.0.1', ...request } })
  const args = ['-n', 'sh', '-ec', commands, process.execPath, program, answers, options]
  const { stdout } = await run('unshare', args)
  return JSON.parse(stdout) as Observation
}

interface Case {
  answers: Answers
  request?: Record<string, unknown>
  received: number
  counts?: Partial<IcmpObserved>
  codes?: string[]
  error?: string
}

const LOST = ['ICMP_PACKET_LOSS']
const SHORT = { timeoutMs: 120 }

const CASES: Case[] = [
  { answers: 'right', received: 4 },
  { answers: 'swapped', received: 4, counts: { outOfOrder: 2 } },
  { answers: 'a byte changed', received: 0, counts: { corrupted: 4 }, codes: LOST },
  { answers: 'one of four changed', received: 3, counts: { corrupted: 1 }, codes: LOST },
  { answers: 'cut short', received: 0, counts: { corrupted: 4 }, codes: LOST },
  { answers: 'too long', received: 0, counts: { corrupted: 4 }, codes: LOST },
  { answers: 'without payload', request: SHORT, received: 0, codes: LOST },
  { answers: 'with another token', request: SHORT, received: 0, codes: LOST },
  { answers: 'with another sequence', request: SHORT, received: 0, codes: LOST },
  { answers: 'with another identifier', request: SHORT, received: 0, codes: LOST },
  {
    answers: 'late',
    request: { timeoutMs: 100, intervalMs: 100 },
    received: 0,
    counts: { late: 3 },
    codes: LOST,
  },
  { answers: 'from another address', received: 4 },
  { answers: 'an objection that anybody can make, then the reply', received: 4 },
  {
    answers: 'an objection that anybody can make',
    request: SHORT,
    received: 0,
    codes: ['ICMP_UNREACHABLE', ...LOST],
    error: 'host unreachable',
  },
  { answers: 'an objection with another token, then the reply', received: 4 },
  { answers: 'the reply, then an objection', received: 4 },
  {
    answers: 'an objection to a parameter',
    received: 0,
    codes: ['ICMP_REJECTED', ...LOST],
    error: 'parameter problem',
  },
  {
    answers: 'an unknown objection',
    received: 0,
    codes: ['ICMP_PROHIBITED', ...LOST],
    error: 'precedence cutoff',
  },
  { answers: 'garbage, then the reply', received: 4 },
]

describe.skipIf(why !== undefined).each(['datagram', 'raw'] as const)(
  `through a %s socket ${why ?? ''}`,
  (kind) => {
    test.each(CASES)('$answers: $received of 4', async (one) => {
      const { answers, request, received, counts, codes = [], error } = one
      const observation = await observe(kind, answers, {
        pingCount: 4,
        intervalMs: 40,
        timeoutMs: 1000,
        ...request,
      })
      expect(observation.failures.map(({ code }) => code)).toEqual(codes)
      expect(observation.observed).toMatchObject({
        socket: kind,
        packetsSent: 4,
        packetsReceived: received,
        duplicates: 0,
        outOfOrder: 0,
        corrupted: 0,
        late: 0,
        ...counts,
      })
      const { errors } = observation.observed as unknown as IcmpObserved
      expect(errors.map((said) => said.error)).toEqual(error === undefined ? [] : [error])
    })

    test('a second reply is a duplicate', async () => {
      const { observed, failures } = await observe(kind, 'twice', { pingCount: 5, intervalMs: 40 })
      expect(failures).toEqual([])
      expect(observed).toMatchObject({ packetsReceived: 5, packetLoss: 0 })
      // The last reply ends the run; its double may come too late to be seen.
      expect([4, 5]).toContain(observed['duplicates'])
    })
  },
)
