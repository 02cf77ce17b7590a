// Names of locations: part of every result's identity, and labels in metrics.

/** How a location may be called, for messages. */
export const LOCATION_NAME_RULE = '1 to 63 of a-z, 0-9 and -'

/** Whether the text can be the name of a location: small letters, digits and dashes, no dash first. */
export function isLocationName(text: string): boolean {
  return /^[a-z0-9][a-z0-9-]{0,62}$/.test(text)
}
