// Capabilities and limits of each agent version, read from the manifests in versions/.
import { readdirSync, readFileSync } from 'node:fs'
import * as z from 'zod'
import type current from '../../versions/8.4.0.json'

const manifest = z.strictObject({
  version: z.string().regex(/^\d+\.\d+\.\d+$/),
  summary: z.string(),
  checkTypes: z.array(z.string()),
  engines: z.array(z.string()),
  runtimes: z.array(z.string()),
  /** Image name → the types of monitor that it can run. */
  images: z.record(z.string(), z.array(z.string())),
  features: z.array(z.string()),
  limits: z.looseObject({ artifactBytesMax: z.int().positive() }),
})

/** Capabilities and limits of one agent version. */
export type Manifest = z.infer<typeof manifest>

const folder = new URL('../../versions/', import.meta.url)

/** Orders two versions `<major>.<minor>.<patch>`: negative when the first is the older one. */
export const compareVersions = new Intl.Collator('en', { numeric: true }).compare

/** All manifests, oldest first. */
export const MANIFESTS: readonly Manifest[] = readdirSync(folder)
  .filter((name) => /^\d+\.\d+\.\d+\.json$/.test(name))
  .map((name) => manifest.parse(JSON.parse(readFileSync(new URL(name, folder), 'utf8'))))
  .sort((a, b) => compareVersions(a.version, b.version))

/**
 * The manifest that holds for an agent of `version`: the newest milestone that is not newer than it.
 * Undefined for versions before the first milestone.
 */
export function manifestFor(version: string): Manifest | undefined {
  return MANIFESTS.findLast((one) => compareVersions(one.version, version) <= 0)
}

const newest = MANIFESTS.at(-1)
if (newest === undefined) throw new Error(`no manifest in ${folder.pathname}`)

/** The version of this code. */
export const VERSION: string = newest.version

/** The limits of this code, each with its unit in its name. */
export const LIMITS = newest.limits as Readonly<typeof current.limits>

/**
 * How large one artifact of an agent of `version` may be, bytes. A version that is not known, or none,
 * counts as the oldest.
 */
export function artifactBytesMax(version: string | undefined): number {
  const isVersion = /^\d{1,6}\.\d{1,6}\.\d{1,6}$/.test(version ?? '')
  const known = isVersion ? manifestFor(version ?? '') : undefined
  return (known ?? MANIFESTS[0])?.limits.artifactBytesMax ?? LIMITS.artifactBytesMax
}

/** The runtime for scripts that name none: the newest. */
export const DEFAULT_RUNTIME: string = newest.runtimes.toSorted().at(-1) ?? ''
