/* What is known of a JPEG 2000 file before it is decoded. */
#ifndef TERCEL_IMAGES_FORMATS_JPEG2000_H
#define TERCEL_IMAGES_FORMATS_JPEG2000_H

#include "images/formats/codec.h"

bool tercel_jpeg2000_recognize(const tercel_image_source *source);
/* A codestream without a file around it. */
bool tercel_jpeg2000_is_bare(const tercel_image_source *source);
/* Refuses what would make a decoder take memory or time out of proportion to the file and the picture. */
tercel_status tercel_jpeg2000_check(const tercel_image_source *source, tercel_error *err);

#endif
