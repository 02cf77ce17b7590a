// Runs hostile scripts under agents of every kind, next to a well-behaved one that must not be affected.
import { chmodSync, existsSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { SandboxOutcome } from '../../../src/sandbox/request.ts'
import {
  missingFor,
  processesWith,
  startStandIn,
  type StandIn,
  type StandInAnswer,
  type StandInRequest,
} from './stand-in.ts'
import { eventually } from '../eventually.ts'
import { temporaryFolder } from '../temporary-folder.ts'

/** A script and its expected end. */
export interface HostileScript {
  does: string
  request(standIn: StandIn): Omit<StandInRequest, 'id'>
  outcome: SandboxOutcome | SandboxOutcome[]
  also?(answer: StandInAnswer, standIn: StandIn): void
}

type Command = Pick<StandInRequest, 'command' | 'args'>

export const node = (script: string, ...args: string[]): Command => ({
  command: process.execPath,
  args: ['-e', script, ...args],
})
export const shell = (script: string, ...args: string[]): Command => ({
  command: '/bin/sh',
  args: ['-c', script, 'sh', ...args],
})

/** Runs each script as a test, under an agent that is root, and in a container as root and as nobody. */
export function testHostileScripts(scripts: readonly HostileScript[]): void {
  describe.each(['root', 'root of a container', 'nobody in a container'] as const)(
    'under an agent that is %s',
    (as) => {
      const missing = missingFor(as)
      let standIn: StandIn
      let beats = 0
      let isNeighbourDone = false

      beforeAll(async () => {
        if (missing !== undefined) return
        const root = temporaryFolder()
        chmodSync(root, 0o777)
        standIn = await startStandIn(root, as)
        const script = node(`setInterval(() => console.log('beat'), 50)`)
        const request = { ...script, echo: true, limits: { wallMs: 600_000 } }
        void standIn.run(request, () => beats++).then(() => (isNeighbourDone = true))
        await beat()
      })
      afterAll(() => standIn?.kill())

      async function beat(): Promise<void> {
        const before = beats
        await eventually(() => beats > before, { what: 'a beat of the neighbour' })
        expect(isNeighbourDone).toBe(false)
      }

      test.skipIf(missing !== undefined).for(scripts)('a script $does', async (one) => {
        const answer = await standIn.run(one.request(standIn))
        expect(answer.end).toMatchObject({ leftBehind: 0 })
        expect([one.outcome].flat()).toContain(answer.end.outcome)
        expect(answer.end.layers).toEqual({
          ownUser: as !== 'nobody in a container',
          landlock: expect.any(Number),
          network: true,
        })
        one.also?.(answer, standIn)
        expect(processesWith(answer.folder)).toEqual([])
        expect(existsSync(answer.folder)).toBe(false)
        await beat()
      })
    },
  )
}
