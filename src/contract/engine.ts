// Engines of check suites: maps a requested version to a supported engine.
/** Names of engines in the public wire form. */
export const ENGINE_NAMES = ['node', 'bun'] as const
export type EngineName = (typeof ENGINE_NAMES)[number]

/** The engine chosen for a requested version. */
export interface ChosenEngine {
  /** Like `node@24`. */
  engine: string
  /** Set when the version differs from the requested one. */
  notice?: string
}

/**
 * Chooses the engine for a request such as `node` `20.11`; without a version the default, Node 22 or Bun
 * 1.3. Returns an error text when there is none.
 */
export function chooseEngine(name: EngineName, version?: string | null): ChosenEngine | string {
  if ((version ?? '') === '') return { engine: name === 'node' ? 'node@22' : 'bun@1.3' }
  const found = /^v?(\d{1,5})(?:\.(\d{1,5}|x))?(?:\.(?:\d{1,5}|x))?$/.exec(version ?? '')
  if (found === null) return 'must be a version, like 24 or 22.11.0'
  const major = Number(found[1])
  if (name === 'node') return nodeOf(major)
  const minor = found[2] === undefined || found[2] === 'x' ? 3 : Number(found[2])
  if (major >= 2) return `Bun ${major} is not supported; use 1.3`
  const notice = `Bun ${major}.${minor} is not available; 1.3 is used`
  return major === 1 && minor === 3 ? { engine: 'bun@1.3' } : { engine: 'bun@1.3', notice }
}

/** Rounds up to Node 22, 24 or 26; newer versions become 26. */
function nodeOf(major: number): ChosenEngine {
  const best = major <= 22 ? 22 : major <= 24 ? 24 : 26
  const engine = `node@${best}`
  if (best === major) return { engine }
  return { engine, notice: `Node ${major} is not available; ${best} is used` }
}
