// Aim: monitors are distributed evenly and fast, every process computes the same owner, and only monitors that
// must move do.
import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import {
  createAssignment,
  type Member,
  neededText,
} from '../../../src/platform/agents/assignment.ts'

const member = (abilities: string[] = ['TCP'], id: string = randomUUID()): Member => ({
  id,
  abilities,
})
const members = (count: number) => Array.from({ length: count }, () => member())
const ids = (count: number) => Array.from({ length: count }, () => randomUUID())
/** Ids that differ only in their last digits. */
const neighbours = (count: number) =>
  ids(count).map((_, at) => `00000000-0000-4000-8000-${String(at).padStart(12, '0')}`)
const similar = neighbours(5).map((id) => member(['TCP'], id))

describe('owner', () => {
  test.each([
    ['random ids', ids(10_000), members(5)],
    ['ids next to each other', neighbours(10_000), members(5)],
    ['agents next to each other too', neighbours(10_000), similar],
  ])('%s are distributed within a few percent', (_sentence, monitors, all) => {
    const assignment = createAssignment(all)
    const shares = Map.groupBy(monitors, (id) => assignment.owner(id, ['TCP']))
    expect(shares.size).toBe(5)
    // Five standard deviations of a fair draw.
    for (const { length } of shares.values()) expect(Math.abs(length - 2000)).toBeLessThan(200)
  })

  test('a leaving member moves only its own, to all others; a joining one gets some of all', () => {
    for (let turn = 0; turn < 20; turn++) {
      const all = members(2 + (turn % 6))
      const [gone, ...rest] = all
      const before = createAssignment(all)
      const after = createAssignment(rest)
      for (const id of ids(300)) {
        const [old, now] = [before.owner(id, ['TCP'])?.id, after.owner(id, ['TCP'])?.id]
        expect(now === old || old === gone?.id).toBe(true)
      }
    }
  })

  test('does not depend on the order of members', () => {
    const all = members(7)
    const turned = all.toReversed()
    const [one, other] = [createAssignment(all), createAssignment(turned)]
    for (const id of ids(500)) expect(one.owner(id, ['TCP'])).toBe(other.owner(id, ['TCP']))
  })

  test('only capable members', () => {
    const [dns, tcp] = [member(['DNS', 'TCP']), member(['TCP'])]
    const assignment = createAssignment([dns, tcp])
    for (const id of ids(50)) {
      expect(assignment.owner(id, ['DNS'])).toBe(dns)
      expect(assignment.owner(id, ['DNS', 'engine:node@24'])).toBeUndefined()
    }
    expect(createAssignment([]).owner(randomUUID(), ['TCP'])).toBeUndefined()
  })
})

const RECENT = ['BROWSER', 'runtime:2026.04']
const SUITE = ['PLAYWRIGHT', 'engine:node@24', 'runtime:2025.04']

test.each([
  [['DNS'], 'agent 7.0.0 or newer'],
  [['TCP'], 'agent 6.3.1 or newer'],
  [['GRPC'], 'agent 8.4.0 or newer'],
  [RECENT, 'agent 7.0.0 or newer (image agent)'],
  [RECENT, '`vedette runtime install 2026.04`'],
  [['MULTI_STEP', 'runtime:2024.09'], '`vedette migrate --from 2024.09 --to 2026.04`'],
  [SUITE, 'agent 8.3.0 or newer (image agent)'],
  [SUITE, '`vedette engine install node@24` and `vedette runtime install 2025.04`'],
  [['HEARTBEAT'], 'no agent version'],
])('the text of the needs %j names: %s', (needs, fact) => {
  expect(neededText(needs)).toContain(fact)
})
