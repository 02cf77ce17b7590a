// Where two definitions differ, by places and never by values: they may be secret.

const PLACES_MAX = 50

/** The places at which `after` differs from `before`, like `request.url`; the first 50 of them. */
export function differences(before: unknown, after: unknown): string[] {
  const places: string[] = []
  compare(before, after, '', places)
  return places.slice(0, PLACES_MAX)
}

function compare(before: unknown, after: unknown, place: string, places: string[]): void {
  if (before === after || places.length > PLACES_MAX) return
  if (!isOpen(before) || !isOpen(after) || Array.isArray(before) !== Array.isArray(after)) {
    places.push(place)
    return
  }
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    compare(before[key], after[key], place === '' ? key : `${place}.${key}`, places)
  }
}

function isOpen(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
