// Aim: the images weigh what the README says, and the agent that runs no user code at most 200 MB beyond its Debian.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { engine } from '../support/container-engine.ts'
import { type Image, needImages, tagOf } from '../support/images.ts'

const IMAGES: Image[] = ['agent-uptime', 'agent', 'agent-migrate', 'platform']
needImages(...IMAGES)

const readme = readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8')

/** Megabytes beyond the base, by tag. */
const said = new Map(
  [...readme.matchAll(/^\| `(vedette\/[^`]+)` +\|.*\| (\d+) +\|$/gm)].map(
    ([, tag = '', megabytes]) => [tag, Number(megabytes)] as const,
  ),
)

async function bytesOf(tag: string): Promise<{ bytes: number; base: string }> {
  const { Size, Config } = await (await engine()).getImage(tag).inspect()
  const labels = Config.Labels as Record<string, string> | null
  return { bytes: Size, base: labels?.['org.opencontainers.image.base.name'] ?? '' }
}

test.each(IMAGES)('%s', async (image) => {
  const { bytes, base } = await bytesOf(tagOf(image))
  const beyond = (bytes - (await bytesOf(base)).bytes) / 1e6
  const table = said.get(tagOf(image)) ?? 0
  // Packages of Debian grow and shrink a little from week to week.
  expect(table).toBeGreaterThan(beyond * 0.95)
  expect(table).toBeLessThan(beyond * 1.05)
  expect(beyond).toBeLessThan(image === 'agent-uptime' ? 200 : 4000)
})
